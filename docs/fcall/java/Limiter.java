import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.zip.CRC32;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.util.JedisURIHelper;

/** Asks Redis whether a request may pass. Safe for many threads; a process needs one. */
public final class Limiter implements AutoCloseable {
    /** retryUs −1: waiting does not help. waitUs: an allowed request waits this long for its turn. */
    public record Decision(boolean allowed, String reason, long retryUs, long waitUs) {}

    private static final String HOME = "hr:{all}"; // of limits over all tenants, in a cluster

    private final UnifiedJedis redis;
    private final long budgetNanos;
    private final String fail;
    private final Map<String, String> modes = new ConcurrentHashMap<>(); // tenant and endpoint → the plan's mode

    /**
     * `url` is redis://host:6379/0, or redis+cluster://host1:6379,host2:6379. `fail` is open or closed, and counts until
     * a reply has named the plan's own mode.
     */
    public Limiter(String url, Duration budget, String fail) {
        int millis = (int) budget.toMillis();
        var pool = new ConnectionPoolConfig();
        pool.setMaxWait(budget); // for a free connection
        boolean isCluster = url.startsWith("redis+cluster://");
        var nodes = url.replace("redis+cluster://", "redis://").split(",");
        var uri = URI.create(nodes[0]);
        var builder = DefaultJedisClientConfig.builder(uri).connectionTimeoutMillis(millis).socketTimeoutMillis(millis);
        var config = builder.build();
        var first = JedisURIHelper.getHostAndPort(uri);
        if (isCluster) {
            var others = Stream.of(nodes).skip(1).map(HostAndPort::from);
            Set<HostAndPort> all = Stream.concat(Stream.of(first), others).collect(Collectors.toSet());
            var cluster = RedisClusterClient.builder().nodes(all).maxTotalRetriesDuration(budget);
            this.redis = cluster.clientConfig(config).poolConfig(pool).build();
        } else {
            this.redis = RedisClient.builder().hostAndPort(first).clientConfig(config).poolConfig(pool).build();
        }
        this.budgetNanos = budget.toNanos();
        this.fail = fail;
    }

    public static String shardKey(String tenant) {
        var crc = new CRC32();
        crc.update(tenant.getBytes(StandardCharsets.UTF_8));
        return "hr:{" + crc.getValue() % 64 + "}";
    }

    /** Takes a whole number or "*" as cost, and the subject as pairs: "ip", "203.0.113.9". */
    public Decision check(String tenant, String endpoint, String cost, String... subject) {
        var shard = shardKey(tenant);
        var first = ask(shard, List.of(tenant, endpoint, cost), List.of(), subject);
        if (!first.decision.reason.equals("global")) return first.decision;
        // In a cluster, limits over all tenants are counted at their home: pay there first, and take it back on a denial.
        var home = ask(HOME, List.of("*", endpoint, cost), List.of("ALL"), subject);
        if (!home.decision.allowed) {
            var sums = List.of("d", "1", cost.equals("*") ? "1" : cost, home.limit);
            if (!home.limit.isEmpty()) tell("hr_report", shard, List.of(tenant, endpoint), sums);
            return home.decision;
        }
        var own = ask(shard, List.of(tenant, endpoint, cost), List.of("GLOBAL", "paid"), subject);
        if (!own.decision.allowed && !home.receipt.isEmpty()) {
            tell("hr_refund", HOME, List.of("*", endpoint, home.receipt), List.of(subject));
        }
        long waitUs = Math.max(own.decision.waitUs, home.decision.waitUs);
        return new Decision(own.decision.allowed, own.decision.reason, own.decision.retryUs, waitUs);
    }

    private record Answer(Decision decision, String limit, String receipt) {}

    /** What may fail: at worst the units stay charged, or a denial is not shown. */
    private void tell(String function, String key, List<String> words, List<String> more) {
        try {
            call(function, key, words, more);
        } catch (JedisException error) {
            return;
        }
    }

    /** Asks again while a cluster moves the key: nothing was counted then. */
    private Object call(String function, String key, List<String> words, List<String> more) {
        var all = new ArrayList<>(words);
        all.addAll(more);
        for (long end = System.nanoTime() + budgetNanos; ; Thread.onSpinWait()) {
            try {
                return redis.fcall(function, List.of(key), all);
            } catch (JedisDataException error) {
                boolean isMoving = error.getMessage().contains("non local key");
                if (!isMoving || System.nanoTime() >= end) throw error;
            }
        }
    }

    private Answer ask(String key, List<String> words, List<String> options, String... subject) {
        var plan = words.get(0) + " " + words.get(1);
        var more = new ArrayList<>(options);
        more.addAll(List.of(subject));
        List<?> reply;
        try {
            reply = (List<?>) call("hr_check", key, words, more);
        } catch (JedisException error) {
            boolean isMistake = error instanceof JedisDataException && error.getMessage().startsWith("HR");
            if (isMistake) throw error; // in the call; the text says what to change
            return withoutStore(plan);
        }
        var reason = (String) reply.get(1);
        boolean isUnpublished = key.equals(HOME) && reason.equals("unknown_tenant");
        if (reason.equals("not_ready") || isUnpublished) return withoutStore(plan);
        var mode = reason.equals("suspended") ? "closed" : (String) reply.get(11);
        if (!mode.isEmpty()) modes.put(plan, mode);
        var decision = new Decision((long) reply.get(0) == 1, reason, (long) reply.get(6), (long) reply.get(7));
        var receipt = ((List<?>) reply.get(10)).stream().map(String::valueOf).collect(Collectors.joining(":"));
        return new Answer(decision, (String) reply.get(2), receipt);
    }

    /** Lets through under open and under local, for which you would need a limiter of your own. */
    private Answer withoutStore(String plan) {
        var mode = modes.getOrDefault(plan, fail);
        return new Answer(new Decision(!mode.equals("closed"), "unavailable", 1_000_000, 0), "", "");
    }

    @Override
    public void close() {
        redis.close();
    }
}
