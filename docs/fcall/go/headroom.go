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
	client *redis.Client
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

func NewLimiter(url string, budget time.Duration, fail string) (*Limiter, error) {
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
	words := []any{"FCALL", "hr_check", 1, ShardKey(tenant), tenant, endpoint, cost}
	for _, word := range subject {
		words = append(words, word)
	}
	reply, err := l.client.Do(ctx, words...).Slice()
	if err != nil && strings.HasPrefix(err.Error(), "HR") {
		return Decision{}, err // a mistake in the call; the text says what to change
	}
	plan := tenant + " " + endpoint
	if err != nil || reply[1] == "not_ready" {
		return l.withoutStore(plan), nil
	}
	if reply[1] == "suspended" {
		l.modes.Store(plan, "closed")
	} else if reply[11] != "" {
		l.modes.Store(plan, reply[11])
	}
	return Decision{reply[0] == int64(1), reply[1].(string), micros(reply[6]), micros(reply[7])}, nil
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
