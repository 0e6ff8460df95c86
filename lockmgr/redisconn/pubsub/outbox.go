package pubsub

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// command is a SUBSCRIBE, or an UNSUBSCRIBE.
type command struct {
	channel string
	off     bool
	alone   bool   // it shares no command with other channels
	ping    uint64 // is sent behind it, or behind a later one that is sent with it
}

// outbox is what a connection has yet to send. Its fields but ready are guarded by hub.mu.
type outbox struct {
	ready    chan struct{} // says that commands or pings has changed
	commands []command
	pings    uint64 // number of the last ping
}

// pingLocked adds a ping behind all commands, and returns its number.
func (o *outbox) pingLocked() uint64 {
	o.pings++
	signal(o.ready)
	return o.pings
}

// addLocked adds a command, with a ping behind it, and returns the number of that ping.
func (o *outbox) addLocked(c command) (ping uint64) {
	c.ping = o.pingLocked()
	o.commands = append(o.commands, c)
	return c.ping
}

// takeLocked empties the outbox. It returns the commands and the number of the last ping.
func (o *outbox) takeLocked() (commands []command, ping uint64) {
	commands, o.commands = o.commands, nil
	return commands, o.pings
}

// writer sends commands. It belongs to one goroutine.
type writer struct {
	ps      *redis.PubSub
	sharded bool
}

// flush sends commands, with a ping behind each, and the last ping if that was not
// among them.
func (w writer) flush(ctx context.Context, commands []command, last uint64) error {
	sent := uint64(0)
	for len(commands) > 0 {
		n := together(commands)
		sent = commands[n-1].ping
		if err := w.subscribe(ctx, commands[:n]); err != nil {
			return err
		}
		if err := w.ping(ctx, sent); err != nil {
			return err
		}
		commands = commands[n:]
	}
	if sent < last {
		return w.ping(ctx, last)
	}
	return nil
}

func (w writer) ping(ctx context.Context, number uint64) error {
	return w.ps.Ping(ctx, strconv.FormatUint(number, 10))
}

// together returns how many of the next commands may be sent as one.
func together(commands []command) int {
	n := 1
	for n < len(commands) && commands[n].off == commands[0].off && !commands[n].alone && !commands[0].alone {
		n++
	}
	return n
}

// subscribe sends commands of one kind.
func (w writer) subscribe(ctx context.Context, commands []command) error {
	send := w.ps.Subscribe
	switch off := commands[0].off; {
	case off && w.sharded:
		send = w.ps.SUnsubscribe
	case w.sharded:
		send = w.ps.SSubscribe
	case off:
		send = w.ps.Unsubscribe
	}
	var channels []string
	for _, command := range commands {
		channels = append(channels, command.channel)
	}
	if !w.sharded {
		return send(ctx, channels...)
	}
	for _, channel := range channels { // one command may only name channels of one slot
		if err := send(ctx, channel); err != nil {
			return err
		}
	}
	return nil
}
