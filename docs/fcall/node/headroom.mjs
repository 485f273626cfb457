import { Cluster, Redis } from "ioredis";
import { crc32 } from "node:zlib"; // Node 20.15 or newer

export const shardKey = (tenant) => `hr:{${crc32(tenant) % 64}}`;

/** Asks Redis whether a request may pass. A process needs one. */
export class Limiter {
  #modes = new Map(); // tenant and endpoint → the plan's failure mode

  /** `url`: redis://host:6379/0 or redis+cluster://host1:6379,host2:6379. `fail` (open, closed) counts until a reply
   * has named the plan's own mode. */
  constructor(url, { budgetMs = 50, fail = "open" } = {}) {
    Object.assign(this, { fail, budgetMs });
    const options = {
      commandTimeout: budgetMs,
      enableOfflineQueue: false, // without a connection, the failure mode decides at once
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false, // never send a check twice: the first one may have counted
    };
    const [, nodes] = url.split("redis+cluster://");
    this.redis = nodes
      ? new Cluster(nodes.split(",").map((node) => `redis://${node}`), { redisOptions: options, enableOfflineQueue: false })
      : new Redis(url, options);
    this.redis.on("error", () => {}); // ioredis connects again by itself; each check sees its own error
  }

  /** `cost` is a whole number or "*"; `subject` is `{ ip: "203.0.113.9" }`, its values text or Buffers. */
  async check(tenant, endpoint, cost, subject = {}) {
    const shard = shardKey(tenant);
    const pairs = Object.entries(subject).flat();
    const first = await this.#ask(shard, tenant, endpoint, cost, pairs);
    if (first.reason !== "global") return first;
    // In a cluster, limits over all tenants are counted at hr:{all}: pay there first, and take it back if the shard denies.
    const home = await this.#ask("hr:{all}", "*", endpoint, cost, ["ALL", ...pairs]);
    if (!home.allowed) {
      const words = [shard, tenant, endpoint, "d", 1, cost === "*" ? 1 : cost, home.limit];
      if (home.limit) await this.#call("hr_report", ...words).catch(() => {});
      return home;
    }
    const own = await this.#ask(shard, tenant, endpoint, cost, ["GLOBAL", "paid", ...pairs]);
    if (!own.allowed && home.receipt) {
      await this.#call("hr_refund", "hr:{all}", "*", endpoint, home.receipt, ...pairs).catch(() => {});
    }
    return { ...own, waitUs: Math.max(own.waitUs, home.waitUs) };
  }

  /** Asks again while a cluster moves the key: nothing was counted then. */
  async #call(name, ...words) {
    for (const end = Date.now() + this.budgetMs; ; ) {
      try {
        return await this.redis.call("FCALL", name, 1, ...words);
      } catch (error) {
        if (!error.message.includes("non local key") || Date.now() >= end) throw error;
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    }
  }

  async #ask(key, tenant, endpoint, cost, more) {
    const plan = `${tenant} ${endpoint}`;
    let reply;
    try {
      reply = await this.#call("hr_check", key, tenant, endpoint, cost, ...more);
    } catch (error) {
      if (error.message.startsWith("HR")) throw error; // a mistake in the call; the text says what to change
      return this.#withoutStore(plan);
    }
    const [allowed, reason, limit, , , , retryUs, waitUs, , , receipt, mode] = reply;
    if (reason === "not_ready" || (tenant === "*" && reason === "unknown_tenant")) return this.#withoutStore(plan);
    if (reason === "suspended") this.#modes.set(plan, "closed");
    else if (mode) this.#modes.set(plan, mode);
    // retryUs −1: waiting does not help. waitUs: an allowed request waits this long for its turn.
    return { allowed: allowed === 1, reason, retryUs, waitUs, limit, receipt: receipt.join(":") };
  }

  /** Lets through under open and under local, for which you would need a limiter of your own. */
  #withoutStore(plan) {
    const mode = this.#modes.get(plan) ?? this.fail;
    return { allowed: mode !== "closed", reason: "unavailable", retryUs: 1_000_000, waitUs: 0 };
  }
}
