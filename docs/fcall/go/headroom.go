// Package headroom asks Redis whether a request may pass.
package headroom

import (
	"context"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Limiter is safe for many goroutines; a process needs one.
type Limiter struct {
	client redis.UniversalClient
	budget time.Duration
	fail   string   // open or closed, until a reply has named the plan's own mode
	modes  sync.Map // tenant and endpoint → the plan's failure mode
}

type Decision struct {
	Allowed    bool
	Reason     string
	RetryAfter time.Duration // for a denied request; negative: waiting does not help
	Wait       time.Duration // an allowed request waits this long for its turn
}

// NewLimiter takes redis://host:6379/0, or redis+cluster://host1:6379,host2:6379.
func NewLimiter(url string, budget time.Duration, fail string) (*Limiter, error) {
	if nodes, found := strings.CutPrefix(url, "redis+cluster://"); found {
		options, err := redis.ParseClusterURL("redis://" + strings.Replace(strings.ReplaceAll(nodes, ",", "&addr="), "&", "?", 1))
		if err != nil {
			return nil, err
		}
		options.MaxRetries, options.ContextTimeoutEnabled = -1, true
		return &Limiter{client: redis.NewClusterClient(options), budget: budget, fail: fail}, nil
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	options.MaxRetries = -1              // never send a check twice: the first one may have counted
	options.ContextTimeoutEnabled = true // without this, go-redis ignores the budget
	return &Limiter{client: redis.NewClient(options), budget: budget, fail: fail}, nil
}

func ShardKey(tenant string) string {
	return fmt.Sprintf("hr:{%d}", crc32.ChecksumIEEE([]byte(tenant))%64)
}

// Check takes a whole number or "*" as cost, and the subject as pairs: "ip", "203.0.113.9".
func (l *Limiter) Check(ctx context.Context, tenant, endpoint, cost string, subject ...string) (Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, l.budget)
	defer cancel()
	decision, _, err := l.ask(ctx, ShardKey(tenant), tenant, endpoint, cost, subject)
	if err != nil || decision.Reason != "global" {
		return decision, err
	}
	// In a cluster, limits over all tenants are counted at hr:{all}: pay there first, and take it back if the shard denies.
	home, paid, err := l.ask(ctx, "hr:{all}", "*", endpoint, cost, append([]string{"ALL"}, subject...))
	if err != nil || !home.Allowed {
		if paid != nil {
			l.call(ctx, "hr_report", ShardKey(tenant), tenant, endpoint, "d", "1", strings.Replace(cost, "*", "1", 1), paid[2].(string))
		}
		return home, err
	}
	decision, _, err = l.ask(ctx, ShardKey(tenant), tenant, endpoint, cost, append([]string{"GLOBAL", "paid"}, subject...))
	if !decision.Allowed && paid != nil {
		receipt := strings.ReplaceAll(strings.Trim(fmt.Sprint(paid[10]), "[]"), " ", ":")
		l.call(ctx, "hr_refund", "hr:{all}", append([]string{"*", endpoint, receipt}, subject...)...)
	}
	decision.Wait = max(decision.Wait, home.Wait)
	return decision, err
}

// call asks again while a cluster moves the key: nothing was counted then.
func (l *Limiter) call(ctx context.Context, function, key string, words ...string) ([]any, error) {
	command := []any{"FCALL", function, 1, key}
	for _, word := range words {
		command = append(command, word)
	}
	for {
		reply, err := l.client.Do(ctx, command...).Slice()
		if err == nil || !strings.Contains(err.Error(), "non local key") {
			return reply, err
		}
		time.Sleep(time.Millisecond)
	}
}

// ask returns one decision, and the reply if there is one.
func (l *Limiter) ask(ctx context.Context, key, tenant, endpoint, cost string, more []string) (Decision, []any, error) {
	reply, err := l.call(ctx, "hr_check", key, append([]string{tenant, endpoint, cost}, more...)...)
	if err != nil && strings.HasPrefix(err.Error(), "HR") {
		return Decision{}, nil, err // a mistake in the call; the text says what to change
	}
	plan := tenant + " " + endpoint
	if err != nil || reply[1] == "not_ready" || tenant == "*" && reply[1] == "unknown_tenant" {
		return l.withoutStore(plan), nil, nil
	}
	if reply[1] == "suspended" {
		l.modes.Store(plan, "closed")
	} else if reply[11] != "" {
		l.modes.Store(plan, reply[11])
	}
	return Decision{reply[0] == int64(1), reply[1].(string), micros(reply[6]), micros(reply[7])}, reply, nil
}

// withoutStore lets through under open and under local, for which you would need a limiter of your own.
func (l *Limiter) withoutStore(plan string) Decision {
	mode, known := l.modes.Load(plan)
	if !known {
		mode = l.fail
	}
	return Decision{Allowed: mode != "closed", Reason: "unavailable", RetryAfter: time.Second}
}

func micros(value any) time.Duration {
	return time.Duration(value.(int64)) * time.Microsecond
}
