import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Base64;

/** Reads one question per line as JSON and writes one answer per line: the driver of docs/fcall/java. */
final class Driver {
    record Question(String tenant, String endpoint, String cost, String[][] subject) {}

    record Answer(String shard, boolean allowed, String reason, long retry_us, long wait_us, String error) {}

    public static void main(String[] words) throws Exception {
        var gson = new Gson();
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (var limiter = new Limiter(words[0], Duration.ofMillis(Long.parseLong(words[1])), words[2])) {
            for (var line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(gson.toJson(answer(limiter, gson.fromJson(line, Question.class))));
            }
        }
    }

    private static Answer answer(Limiter limiter, Question asked) {
        var shard = Limiter.shardKey(asked.tenant());
        var subject = Arrays.stream(asked.subject()).flatMap(Arrays::stream).map(Driver::text).toArray(String[]::new);
        try {
            var decision = limiter.check(asked.tenant(), asked.endpoint(), asked.cost(), subject);
            return new Answer(shard, decision.allowed(), decision.reason(), decision.retryUs(), decision.waitUs(), "");
        } catch (RuntimeException error) {
            return new Answer(shard, false, "", 0, 0, error.getMessage());
        }
    }

    private static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }
}
