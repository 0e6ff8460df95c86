package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
)

// The kinds of servers that every child can be.
const (
	Node = "node" // roomd with its defaults
	Echo = "echo" // a bare gorilla/websocket server
)

// ServerConfig says what to start.
type ServerConfig struct {
	Kind  string
	Redis string // the URL; for a node
	Name  string // in Redis; for a node
}

// Memory is what a process uses, in bytes.
type Memory struct {
	Resident    int64 // as an operator sees it; 0 if the system does not say
	Heap, Stack int64 // that Go has in use
	Goroutines  int
	Connections int
}

// Server is a server in a process of its own.
type Server struct {
	URL     string // where clients connect
	process *process
}

// StartServer starts a server.
func StartServer(ctx context.Context, cfg ServerConfig) (*Server, error) {
	p, err := launch(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{process: p}
	if err := p.call(ctx, "Server.Start", cfg, &s.URL); err != nil {
		p.close()
		return nil, fmt.Errorf("start a server: %w", err)
	}
	return s, nil
}

// Memory returns what the server uses. With free it first collects garbage, and gives memory
// that nothing uses back to the system.
func (s *Server) Memory(ctx context.Context, free bool) (m Memory, err error) {
	return m, s.process.call(ctx, "Server.Memory", free, &m)
}

// WriteHeapProfile writes a profile of what is in the heap to a file, for go tool pprof.
func (s *Server) WriteHeapProfile(ctx context.Context, file string) error {
	return s.process.call(ctx, "Server.HeapProfile", file, new(int))
}

// Close stops the server, and ends its process.
func (s *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), exitTimeout)
	defer cancel()
	_ = s.process.call(ctx, "Server.Stop", 0, new(int))
	s.process.close()
}

// serverChild is the server's side of it.
type serverChild struct {
	kinds   []Kind
	service Service
}

// Start starts the server and returns its URL.
func (s *serverChild) Start(cfg ServerConfig, url *string) (err error) {
	for _, kind := range s.kinds {
		if kind.Name == cfg.Kind {
			if s.service, err = kind.Open(context.Background(), cfg); err == nil {
				*url = s.service.URL()
			}
			return err
		}
	}
	return fmt.Errorf("there is no server %q", cfg.Kind)
}

// Memory returns what this process uses.
func (s *serverChild) Memory(free bool, m *Memory) error {
	if s.service == nil {
		return errors.New("no server runs")
	}
	if free {
		runtime.GC() // twice: what finalizers and pools hold goes with the second
		debug.FreeOSMemory()
	}
	var used runtime.MemStats
	runtime.ReadMemStats(&used)
	m.Resident = resident()
	m.Heap, m.Stack = int64(used.HeapInuse), int64(used.StackInuse)
	m.Goroutines, m.Connections = runtime.NumGoroutine(), s.service.Connections()
	return nil
}

// HeapProfile writes a profile of this process.
func (s *serverChild) HeapProfile(file string, _ *int) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	runtime.GC() // a profile is as of the last collection
	return errors.Join(pprof.Lookup("heap").WriteTo(f, 0), f.Close())
}

// Stop stops the server.
func (s *serverChild) Stop(int, *int) error {
	if s.service != nil {
		s.service.Close()
		s.service = nil
	}
	return nil
}
