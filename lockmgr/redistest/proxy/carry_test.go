package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// patience bounds each wait of a test.
const patience = 20 * time.Second

// echo starts a server that sends everything back. dial connects to it through a proxy that carries bytes.
func echo(t *testing.T) (p *Proxy, dial func() net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	p, err = Start(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, func() net.Conn {
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
		return c
	}
}

// say sends a line, and returns the answer.
func say(c net.Conn, text string) (string, error) {
	if _, err := io.WriteString(c, text+"\n"); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString('\n')
}

func TestCarry_BytesOfAnyProtocol(t *testing.T) {
	_, dial := echo(t)
	c := dial()
	if got, err := say(c, "GET / HTTP/1.1"); got != "GET / HTTP/1.1\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	_ = c.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil {
		t.Errorf("behind the end: %q, %v", rest, err)
	}
}

func TestCarry_Lag(t *testing.T) {
	p, dial := echo(t)
	c := dial()
	p.Lag(30 * time.Millisecond)
	start := time.Now()
	if _, err := say(c, "late"); err != nil || time.Since(start) < 60*time.Millisecond {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}

// Data sent while a direction is paused arrive when it no longer is.
func TestCarry_PauseWay(t *testing.T) {
	for _, way := range []Way{ToServer, ToClient} {
		p, dial := echo(t)
		c := dial()
		if _, err := say(c, "before"); err != nil {
			t.Fatal(err)
		}
		p.PauseWay(way)
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if got, err := say(c, "paused"); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("way %d: %q, %v", way, got, err)
		}
		p.Resume()
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if got, err := bufio.NewReader(c).ReadString('\n'); got != "paused\n" || err != nil {
			t.Errorf("way %d, resumed: %q, %v", way, got, err)
		}
	}
}

func TestCarry_Reset(t *testing.T) {
	p, dial := echo(t)
	c := dial()
	if _, err := say(c, "before"); err != nil {
		t.Fatal(err)
	}
	p.Reset()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v instead of a reset", err)
	}
	if got, err := say(dial(), "again"); got != "again\n" || err != nil {
		t.Errorf("a new connection: %q, %v", got, err)
	}
}

func TestCarry_Swallow(t *testing.T) {
	p, dial := echo(t)
	c := dial()
	if _, err := say(c, "before"); err != nil {
		t.Fatal(err)
	}
	p.Swallow()
	if got, err := say(c, "lost"); got != "" || err == nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := say(dial(), "again"); got != "again\n" || err != nil {
		t.Errorf("a new connection: %q, %v", got, err)
	}
}
