import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.zip.CRC32;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.util.JedisURIHelper;

/** Asks Redis whether a request may pass. Safe for many threads; a process needs one. */
public final class Limiter implements AutoCloseable {
    /** retryUs −1: waiting does not help. waitUs: an allowed request waits this long for its turn. */
    public record Decision(boolean allowed, String reason, long retryUs, long waitUs) {}

    private final RedisClient redis;
    private final String fail;
    private final Map<String, String> modes = new ConcurrentHashMap<>(); // tenant and endpoint → the plan's mode

    /** `fail` is open or closed, and counts until a reply has named the plan's own mode. */
    public Limiter(String url, Duration budget, String fail) {
        int millis = (int) budget.toMillis();
        var pool = new ConnectionPoolConfig();
        pool.setMaxWait(budget); // for a free connection
        var uri = URI.create(url);
        var config = DefaultJedisClientConfig.builder(uri).connectionTimeoutMillis(millis).socketTimeoutMillis(millis);
        var builder = RedisClient.builder().hostAndPort(JedisURIHelper.getHostAndPort(uri));
        this.redis = builder.clientConfig(config.build()).poolConfig(pool).build();
        this.fail = fail;
    }

    public static String shardKey(String tenant) {
        var crc = new CRC32();
        crc.update(tenant.getBytes(StandardCharsets.UTF_8));
        return "hr:{" + crc.getValue() % 64 + "}";
    }

    /** Takes a whole number or "*" as cost, and the subject as pairs: "ip", "203.0.113.9". */
    public Decision check(String tenant, String endpoint, String cost, String... subject) {
        var plan = tenant + " " + endpoint;
        var words = new ArrayList<>(List.of(tenant, endpoint, cost));
        words.addAll(List.of(subject));
        List<?> reply;
        try {
            reply = (List<?>) redis.fcall("hr_check", List.of(shardKey(tenant)), words);
        } catch (JedisException error) {
            boolean isMistake = error instanceof JedisDataException && error.getMessage().startsWith("HR");
            if (isMistake) throw error; // in the call; the text says what to change
            return withoutStore(plan);
        }
        var reason = (String) reply.get(1);
        if (reason.equals("not_ready")) return withoutStore(plan);
        var mode = reason.equals("suspended") ? "closed" : (String) reply.get(11);
        if (!mode.isEmpty()) modes.put(plan, mode);
        return new Decision((long) reply.get(0) == 1, reason, (long) reply.get(6), (long) reply.get(7));
    }

    /** Lets through under open and under local, for which you would need a limiter of your own. */
    private Decision withoutStore(String plan) {
        var mode = modes.getOrDefault(plan, fail);
        return new Decision(!mode.equals("closed"), "unavailable", 1_000_000, 0);
    }

    @Override
    public void close() {
        redis.close();
    }
}
