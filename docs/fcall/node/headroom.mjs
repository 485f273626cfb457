import { Redis } from "ioredis";
import { crc32 } from "node:zlib"; // Node 20.15 or newer

export const shardKey = (tenant) => `hr:{${crc32(tenant) % 64}}`;

/** Asks Redis whether a request may pass. A process needs one. */
export class Limiter {
  #modes = new Map(); // tenant and endpoint → the plan's failure mode

  /** `fail` is open or closed, and counts until a reply has named the plan's own mode. */
  constructor(url, { budgetMs = 50, fail = "open" } = {}) {
    this.fail = fail;
    this.redis = new Redis(url, {
      commandTimeout: budgetMs,
      enableOfflineQueue: false, // without a connection, the failure mode decides at once
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false, // never send a check twice: the first one may have counted
    });
    this.redis.on("error", () => {}); // ioredis connects again by itself; each check sees its own error
  }

  /** `cost` is a whole number or "*"; `subject` is `{ ip: "203.0.113.9" }`, its values text or Buffers. */
  async check(tenant, endpoint, cost, subject = {}) {
    const plan = `${tenant} ${endpoint}`;
    let reply;
    try {
      const words = [shardKey(tenant), tenant, endpoint, cost, ...Object.entries(subject).flat()];
      reply = await this.redis.call("FCALL", "hr_check", 1, ...words);
    } catch (error) {
      if (error.message.startsWith("HR")) throw error; // a mistake in the call; the text says what to change
      return this.#withoutStore(plan);
    }
    const [allowed, reason, , , , , retryUs, waitUs, , , , mode] = reply;
    if (reason === "not_ready") return this.#withoutStore(plan);
    if (reason === "suspended") this.#modes.set(plan, "closed");
    else if (mode) this.#modes.set(plan, mode);
    // retryUs −1: waiting does not help. waitUs: an allowed request waits this long for its turn.
    return { allowed: allowed === 1, reason, retryUs, waitUs };
  }

  /** Lets through under open and under local, for which you would need a limiter of your own. */
  #withoutStore(plan) {
    const mode = this.#modes.get(plan) ?? this.fail;
    return { allowed: mode !== "closed", reason: "unavailable", retryUs: 1_000_000, waitUs: 0 };
  }
}
