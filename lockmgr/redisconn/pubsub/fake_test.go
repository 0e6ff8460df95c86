package pubsub

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// fake is a server in a synctest bubble that knows nothing but subscriptions. A test can
// change its answers.
type fake struct {
	mu       sync.Mutex
	dials    int                                         // guarded by mu
	requests int                                         // guarded by mu; see counts
	down     bool                                        // guarded by mu
	answer   func(args []string) (reply string, ok bool) // guarded by mu; nil, or not ok: as usual
}

func startFake(t *testing.T) (*fake, *redis.Client) {
	f := &fake{}
	client := redis.NewClient(&redis.Options{
		Addr: "fake", Dialer: f.dial, DialerRetries: 1, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = client.Close() })
	return f, client
}

func (f *fake) dial(context.Context, string, string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dials++
	if f.down {
		return nil, errDown
	}
	client, server := net.Pipe()
	go f.serve(server)
	return client, nil
}

var errDown = errors.New("nobody listens")

// set changes how the server answers from now on.
func (f *fake) set(down bool, answer func([]string) (string, bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down, f.answer = down, answer
}

// serve ends when the client hangs up. It goes on reading while the client does not.
func (f *fake) serve(conn net.Conn) {
	defer conn.Close()
	replies := make(chan string, 10_000)
	defer close(replies)
	go func() {
		for reply := range replies {
			_, _ = io.WriteString(conn, reply)
		}
	}()
	for r := bufio.NewReader(conn); ; {
		args, err := readRequest(r)
		if err != nil {
			return
		}
		replies <- f.reply(args)
	}
}

func readRequest(r *bufio.Reader) (args []string, err error) {
	number := func() (n int) {
		line, e := r.ReadString('\n')
		if e != nil {
			err = e
			return 0
		}
		n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		return n
	}
	for n := number(); n > 0 && err == nil; n-- {
		text := make([]byte, number()+len("\r\n"))
		if err == nil {
			_, err = io.ReadFull(r, text)
		}
		args = append(args, strings.TrimSpace(string(text)))
	}
	return args, err
}

func (f *fake) reply(args []string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	if f.answer != nil {
		if reply, ok := f.answer(args); ok {
			return reply
		}
	}
	switch kind := strings.ToLower(args[0]); kind {
	case "hello":
		return "-ERR unknown command\r\n"
	case "ping":
		return array("pong", strings.Join(args[1:], ""))
	case "subscribe", "unsubscribe":
		var all string
		for _, channel := range args[1:] {
			all += strings.Replace(array(kind, channel), "*2", "*3", 1) + ":1\r\n"
		}
		return all
	}
	return "+OK\r\n"
}

func array(texts ...string) string {
	s := fmt.Sprintf("*%d\r\n", len(texts))
	for _, text := range texts {
		s += fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	}
	return s
}

// counts returns how many connections and requests there were.
func (f *fake) counts() (dials, requests int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dials, f.requests
}
