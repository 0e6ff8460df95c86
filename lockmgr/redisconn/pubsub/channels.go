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

// subscribeLocked adds a SUBSCRIBE to the outbox.
func (c *conn) subscribeLocked(s *Subscription, alone bool) {
	s.unanswered = c.outbox.addLocked(command{channel: s.channel, alone: alone})
	c.unconfirmed = append(c.unconfirmed, s)
}

// removeLocked removes a subscription, and unsubscribes if it was the last of its channel.
func (c *conn) removeLocked(s *Subscription) {
	if !c.forgetLocked(s) {
		return
	}
	c.outbox.addLocked(command{channel: s.channel, off: true})
	if c.hub.sharded() {
		c.leaving[s.channel]++
	}
}

// forgetLocked removes a subscription, and reports whether it was the last of its channel.
func (c *conn) forgetLocked(s *Subscription) bool {
	others := slices.DeleteFunc(c.channels[s.channel], func(other *Subscription) bool { return other == s })
	c.channels[s.channel] = others
	if len(others) > 0 {
		return false
	}
	delete(c.channels, s.channel)
	return true
}

// receiversOf returns the active subscriptions of a channel. What comes for the others was
// published for an earlier subscription. The slice is valid until the next call.
func (c *conn) receiversOf(channel string) []*Subscription {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	c.receivers = slices.DeleteFunc(append(c.receivers[:0], c.channels[channel]...), func(s *Subscription) bool { return s.unanswered != 0 })
	return c.receivers
}

// dropped finds another server for a channel, if this one has unsubscribed from it by
// itself: the channel's slot has moved away.
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
	c.unconfirmed = slices.DeleteFunc(c.unconfirmed, func(s *Subscription) bool { return slices.Contains(subs, s) })
	for _, s := range subs {
		c.hub.refusedLocked(s, errMoved)
	}
}

// pong makes the subscriptions that were sent before that ping active, or handles their
// refusal.
func (c *conn) pong(payload string) {
	answered, err := strconv.ParseUint(payload, 10, 64)
	if err != nil {
		return
	}
	refusal := c.refusal
	c.refusal = nil
	var missed []*Subscription
	isNews := false
	h := c.hub
	h.mu.Lock()
	sent := c.answeredLocked(answered)
	open := slices.DeleteFunc(slices.Clone(sent), func(s *Subscription) bool { return s.closed })
	if refusal != nil {
		clear(c.leaving) // perhaps one of these was refused, and will not be confirmed
	}
	for _, s := range open {
		switch {
		case refusal == nil:
			if s.activateLocked() {
				missed = append(missed, s)
			}
		case len(sent) > 1: // perhaps the server refused another one
			c.subscribeLocked(s, true)
		default:
			c.forgetLocked(s)
			refusal = fmt.Errorf("pubsub: subscribe to %q: %w", s.channel, refusal)
			isNews = h.refusedLocked(s, refusal)
		}
	}
	h.mu.Unlock()
	if isNews {
		h.lost(refusal)
	}
	for _, s := range missed {
		if s.handler.Interrupted != nil {
			s.handler.Interrupted()
		}
	}
}

// answeredLocked removes from unconfirmed the subscriptions that were sent before that ping,
// and returns them.
func (c *conn) answeredLocked(ping uint64) []*Subscription {
	n := 0
	for n < len(c.unconfirmed) && c.unconfirmed[n].unanswered <= ping {
		n++
	}
	sent := slices.Clone(c.unconfirmed[:n])
	c.unconfirmed = slices.Delete(c.unconfirmed, 0, n)
	return sent
}
