package tally

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// perDoubling is how many buckets there are between a duration and its double: what a
	// percentile says is at most an eighth too long.
	perDoubling = 8
	buckets     = 32 * perDoubling

	// turns are how many turns a duration counts for.
	turns = 5
)

// Recent are the durations of the last turns. The zero value is empty.
type Recent struct {
	now [buckets]atomic.Uint32

	// Used only by turn.
	past [turns][buckets]uint32
	next int // the oldest of past
}

// Observe counts a duration.
func (r *Recent) Observe(d time.Duration) { r.now[bucketOf(d)].Add(1) }

// bucketOf returns the bucket of a duration. The first ones are a microsecond wide each, those
// behind them an eighth of their durations.
func bucketOf(d time.Duration) int {
	us := uint64(max(0, d.Microseconds()))
	if us < perDoubling {
		return int(us)
	}
	shift := bits.Len64(us) - bits.Len(perDoubling)
	return min(shift*perDoubling+int(us>>shift), buckets-1)
}

// endOf returns the duration at which a bucket ends.
func endOf(bucket int) time.Duration {
	if bucket < perDoubling {
		return time.Duration(bucket+1) * time.Microsecond
	}
	shift, part := bucket/perDoubling-1, bucket%perDoubling+perDoubling
	return time.Duration(part+1) << shift * time.Microsecond
}

// turn begins another turn, and returns the 99th percentile of the last ones; zero if nothing was
// counted.
func (r *Recent) turn() (p99 time.Duration) {
	current := &r.past[r.next]
	r.next = (r.next + 1) % turns
	for i := range current {
		current[i] = 0
		if r.now[i].Load() > 0 {
			current[i] = r.now[i].Swap(0)
		}
	}
	var sums [buckets]uint64
	var all uint64
	for i := range r.past {
		for bucket, n := range r.past[i] {
			sums[bucket] += uint64(n)
			all += uint64(n)
		}
	}
	above := all / 100 // how many may be longer
	for bucket := buckets - 1; bucket >= 0; bucket-- {
		if sums[bucket] > above {
			return endOf(bucket)
		}
		above -= sums[bucket]
	}
	return 0
}
