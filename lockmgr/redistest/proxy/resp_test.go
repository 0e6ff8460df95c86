package proxy

import (
	"bufio"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestReadValue(t *testing.T) {
	for _, value := range []string{
		"+OK\r\n", "-ERR no\r\n", ":-3\r\n", "_\r\n", ",1.5\r\n", "#t\r\n", "(123\r\n",
		"$5\r\na\r\nbc\r\n", "$0\r\n\r\n", "$-1\r\n", "=7\r\ntxt:abc\r\n", "!5\r\nERR x\r\n",
		"*-1\r\n", "*0\r\n", "*2\r\n$1\r\na\r\n*1\r\n:1\r\n", "~1\r\n:1\r\n",
		"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n_\r\n", ">2\r\n+x\r\n:1\r\n", "|1\r\n+ttl\r\n:9\r\n$1\r\nv\r\n",
	} {
		r := bufio.NewReader(strings.NewReader(value + "+next\r\n"))
		if raw, err := readValue(r, nil); err != nil || string(raw) != value {
			t.Errorf("%q: read %q, %v", value, raw, err)
		}
		if rest, _ := io.ReadAll(r); string(rest) != "+next\r\n" {
			t.Errorf("%q: left %q", value, rest)
		}
	}
}

func TestReadValueRefuses(t *testing.T) {
	for _, value := range []string{"?\r\n", "\r\n", "+OK\n", "$?\r\n", "$-2\r\n", "*x\r\n"} {
		if raw, err := readValue(bufio.NewReader(strings.NewReader(value)), nil); err == nil {
			t.Errorf("%q: read %q without an error", value, raw)
		}
	}
	for _, cut := range []string{"+O", "$3\r\nab", "*2\r\n:1\r\n", "%1\r\n:1\r\n"} {
		_, err := readValue(bufio.NewReader(strings.NewReader(cut)), nil)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v instead of %v", cut, err, io.ErrUnexpectedEOF)
		}
	}
	if _, err := readValue(bufio.NewReader(strings.NewReader("")), nil); err != io.EOF {
		t.Errorf("end of input: %v", err)
	}
}

func TestReadRequest(t *testing.T) {
	const wire = "*3\r\n$3\r\nset\r\n$1\r\nk\r\n$4\r\n\r\n\r\n\r\n"
	args, raw, err := readRequest(bufio.NewReader(strings.NewReader(wire)))
	if err != nil || string(raw) != wire {
		t.Fatalf("read %q, %v", raw, err)
	}
	if want := []string{"set", "k", "\r\n\r\n"}; !reflect.DeepEqual(args, want) {
		t.Fatalf("arguments %q, want %q", args, want)
	}
	for _, bad := range []string{"PING\r\n", "*1\r\n:1\r\n", "*1\r\n"} {
		if _, _, err := readRequest(bufio.NewReader(strings.NewReader(bad))); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
