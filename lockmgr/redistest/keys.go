package redistest

import (
	"bufio"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// keysChecked ends what CheckKeys reads.
const keysChecked = "redistest: keys are checked"

// CheckKeys fails the test if a script touches a key that is not among its KEYS, until the server ends. Redis lets
// scripts do so, other servers of its family do not. It returns the server.
func (s *Server) CheckKeys() *Server {
	s.tb.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	OK(s.tb, err)
	OK(s.tb, Err(conn.Write([]byte("MONITOR\r\n"))))
	lines, ended := bufio.NewReader(conn), make(chan struct{})
	OK(s.tb, Err(lines.ReadString('\n')))
	go func() {
		defer close(ended)
		s.checkKeys(lines)
	}()
	s.tb.Cleanup(func() {
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		_ = s.Admin.Echo(context.Background(), keysChecked).Err() // fails only if the server has ended
		<-ended
		_ = conn.Close()
	})
	return s
}

// checkKeys reads what MONITOR tells, such as: +1764313200.123456 [0 lua] "GET" "key". What a script does follows the
// request that runs it. Valkey 8.1 does not escape quotes, so a request may be unreadable: its script is not checked.
func (s *Server) checkKeys(lines *bufio.Reader) {
	var script, declared []string
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		_, line, _ = strings.Cut(line, "[")
		from, line, _ := strings.Cut(line, "] ")
		switch args := strings.Split(strings.Trim(line, "\"\r\n"), `" "`); {
		case slices.Contains(args, keysChecked):
			return
		case strings.HasSuffix(from, " lua"):
			for _, key := range keysIn(args) {
				ErrorIf(s.tb, script != nil && !slices.Contains(declared, key),
					"%.200q uses a key that it does not declare: %.200q", script, args)
			}
		case len(args) > 2 && strings.HasPrefix(strings.ToLower(args[0]), "eval"):
			script = nil
			if n, err := strconv.Atoi(args[2]); err == nil && 3+n <= len(args) {
				script, declared = args, args[3:3+n]
			}
		}
	}
}

// keysIn returns the keys of one of the commands that scripts use.
func keysIn(command []string) []string {
	switch strings.ToLower(command[0]) {
	case "time", "publish", "spublish":
		return nil
	case "del", "exists", "mget":
		return command[1:]
	}
	return command[1:2]
}
