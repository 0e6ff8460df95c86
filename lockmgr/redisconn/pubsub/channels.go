package pubsub

import (
	"fmt"
	"slices"
	"strconv"
)

func (c *conn) addLocked(s *Subscription) {
	s.conn = c
	c.channels[s.channel] = append(c.channels[s.channel], s)
	c.subscribeLocked(s, false)
}

// subscribeLocked has a SUBSCRIBE sent.
func (c *conn) subscribeLocked(s *Subscription, alone bool) {
	s.barrier = c.pingLocked()
	c.outbox = append(c.outbox, command{channel: s.channel, alone: alone, ping: s.barrier})
	c.unsure = append(c.unsure, s)
}

// removeLocked takes a subscription away, and unsubscribes if it was the last of
// its channel.
func (c *conn) removeLocked(s *Subscription) {
	if !c.forgetLocked(s) {
		return
	}
	c.outbox = append(c.outbox, command{channel: s.channel, off: true, ping: c.pingLocked()})
	if c.hub.sharded() {
		c.leaving[s.channel]++
	}
}

// forgetLocked takes a subscription away and reports whether it was the last of its
// channel.
func (c *conn) forgetLocked(s *Subscription) bool {
	left := slices.DeleteFunc(c.channels[s.channel], func(other *Subscription) bool { return other == s })
	c.channels[s.channel] = left
	if len(left) > 0 {
		return false
	}
	delete(c.channels, s.channel)
	return true
}

// pingLocked has a ping sent behind all commands, and returns its number.
func (c *conn) pingLocked() uint64 {
	c.pings++
	signal(c.write)
	return c.pings
}

// standing returns the subscriptions of a channel that stand; messages for
// others belong to an earlier subscription. The slice is good until the next call.
func (c *conn) standing(channel string) []*Subscription {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	c.told = slices.DeleteFunc(append(c.told[:0], c.channels[channel]...), func(s *Subscription) bool { return s.barrier != 0 })
	return c.told
}

// dropped looks for another server for a channel that this one has unsubscribed by
// itself, as it does when the channel's slot leaves it.
func (c *conn) dropped(channel string) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if n := c.leaving[channel]; n > 1 {
		c.leaving[channel] = n - 1
		return
	} else if n == 1 {
		delete(c.leaving, channel)
		return
	}
	subs := c.channels[channel]
	delete(c.channels, channel)
	c.unsure = slices.DeleteFunc(c.unsure, func(s *Subscription) bool { return slices.Contains(subs, s) })
	for _, s := range subs {
		c.hub.refusedLocked(s, errMoved)
	}
}

// pong says of the subscriptions sent with that ping that they stand, or have been
// refused.
func (c *conn) pong(payload string) {
	answered, err := strconv.ParseUint(payload, 10, 64)
	if err != nil {
		return
	}
	refusal := c.refusal
	c.refusal = nil
	var missed []*Subscription
	begins := false
	h := c.hub
	h.mu.Lock()
	sent := c.answeredLocked(answered)
	open := slices.DeleteFunc(slices.Clone(sent), func(s *Subscription) bool { return s.closed })
	if refusal != nil {
		clear(c.leaving) // one of these may be what was refused, and not be confirmed
	}
	for _, s := range open {
		switch {
		case refusal == nil:
			if s.standLocked() {
				missed = append(missed, s)
			}
		case len(sent) > 1: // it may have been another
			c.subscribeLocked(s, true)
		default:
			c.forgetLocked(s)
			refusal = fmt.Errorf("pubsub: subscribe to %q: %w", s.channel, refusal)
			begins = h.refusedLocked(s, refusal)
		}
	}
	h.mu.Unlock()
	if begins {
		h.lost(refusal)
	}
	for _, s := range missed {
		if s.handler.Interrupted != nil {
			s.handler.Interrupted()
		}
	}
}

// answeredLocked takes those out of unsure whose ping was sent by then.
func (c *conn) answeredLocked(ping uint64) []*Subscription {
	n := 0
	for n < len(c.unsure) && c.unsure[n].barrier <= ping {
		n++
	}
	sent := slices.Clone(c.unsure[:n])
	c.unsure = slices.Delete(c.unsure, 0, n)
	return sent
}
