// Package webhook tells a backend of every commit by HTTP requests, signed as Standard Webhooks
// (https://www.standardwebhooks.com) has it.
//
// Start with [New], [Webhooks.Start] and [Webhooks.Close]. Each receiver is told of the commits of the feed one
// request after the other, with up to 100 commits in each. A request that is not answered with a status of 2xx
// within the timeout is sent again, with pauses that grow to a minute, for as long as it takes. Then the place of
// the receiver is kept in Redis. So the receiver gets each commit at least once, and those of a room in order; it
// drops those whose room, epoch and version it has.
//
// Of all nodes with the same receiver one at a time sends, under a lock; when it dies another one goes on after
// seconds, with what was not acknowledged. A receiver that is slow or away holds up nobody else.
//
// One goroutine runs for each receiver, from Start to Close.
package webhook
