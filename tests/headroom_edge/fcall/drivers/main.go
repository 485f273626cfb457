// Reads one question per line as JSON and writes one answer per line: the driver of docs/fcall/go.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"strconv"
	"time"

	"example.com/headroom"
)

type question struct {
	Tenant, Endpoint, Cost string
	Subject                [][2][]byte // encoding/json reads base64 into bytes
}

type answer struct {
	Shard   string `json:"shard"`
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason"`
	RetryUs int64  `json:"retry_us"`
	WaitUs  int64  `json:"wait_us"`
	Error   string `json:"error"`
}

func main() {
	budgetMs, _ := strconv.Atoi(os.Args[2])
	limiter, err := headroom.NewLimiter(os.Args[1], time.Duration(budgetMs)*time.Millisecond, os.Args[3])
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		var subject []string
		for _, pair := range asked.Subject {
			subject = append(subject, string(pair[0]), string(pair[1]))
		}
		told := answer{Shard: headroom.ShardKey(asked.Tenant)}
		decision, err := limiter.Check(context.Background(), asked.Tenant, asked.Endpoint, asked.Cost, subject...)
		if err != nil {
			told.Error = err.Error()
		}
		told.Allowed, told.Reason = decision.Allowed, decision.Reason
		told.RetryUs, told.WaitUs = decision.RetryAfter.Microseconds(), decision.Wait.Microseconds()
		json.NewEncoder(os.Stdout).Encode(told)
	}
}
