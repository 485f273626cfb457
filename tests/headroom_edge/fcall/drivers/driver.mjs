// Reads one question per line as JSON and writes one answer per line: the driver of docs/fcall/node.
import { createInterface } from "node:readline";
import { Limiter, shardKey } from "./headroom.mjs";

const [url, budgetMs, fail] = process.argv.slice(2);
const limiter = new Limiter(url, { budgetMs: Number(budgetMs), fail });
await new Promise((resolve) => limiter.redis.once("ready", resolve));

for await (const line of createInterface({ input: process.stdin })) {
  const { tenant, endpoint, cost, subject } = JSON.parse(line);
  const values = Object.fromEntries(
    subject.map(([name, value]) => [Buffer.from(name, "base64").toString(), Buffer.from(value, "base64")]),
  );
  const answer = { shard: shardKey(tenant), allowed: false, reason: "", retry_us: 0, wait_us: 0, error: "" };
  try {
    const decision = await limiter.check(tenant, endpoint, cost, values);
    Object.assign(answer, { allowed: decision.allowed, reason: decision.reason });
    Object.assign(answer, { retry_us: decision.retryUs, wait_us: decision.waitUs });
  } catch (error) {
    answer.error = error.message;
  }
  console.log(JSON.stringify(answer));
}
process.exit();
