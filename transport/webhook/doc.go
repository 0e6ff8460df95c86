// Package webhook sends every commit to a backend by HTTP requests, signed according to Standard Webhooks
// (https://www.standardwebhooks.com).
//
// Start with [New], [Webhooks.Start] and [Webhooks.Close]. A receiver gets the commits of the feed in one request
// after the other, with up to 100 commits each. A request without an answer of status 2xx within the timeout is
// repeated until it succeeds, with pauses that grow to a minute. Then the receiver's place is saved in Redis. So the
// receiver gets each commit at least once, and those of a room in order. It should ignore commits whose room, epoch
// and version it has.
//
// Of all nodes with the same receiver one sends at a time, under a lock. If it dies another one continues after
// seconds, from the last saved place. A slow receiver does not delay others.
//
// One goroutine runs for each receiver, from Start to Close.
package webhook
