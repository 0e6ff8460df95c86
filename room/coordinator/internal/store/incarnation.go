package store

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn"
)

// An incarnation is the time during which one Redis server is master without interruption. It ends when the server is
// restarted, is replaced, or loads another server's data. Writes may then be lost, and the data do not show it: a
// room from an old copy looks valid. So a room's epoch ends with its incarnation.
//
// The check must happen in the same step as the read or write, because the server may be restarted after any answer
// to a question. A restarted server has forgotten its scripts, and a replica has none. So the text of each script on
// rooms contains the incarnation: a server in another one does not know the script, and does nothing. Then the node
// asks for the new incarnation, and loads the script's text for it. While nothing fails this costs nothing.
//
// Meta holds the incarnation in which the room's epoch began. A room from another incarnation starts a new epoch with
// its next commit, and is not read before.

// errIncarnation means that the script was for an earlier incarnation, and was not run.
var errIncarnation error = incarnationError("redis was restarted or replaced")

// errElsewhere imitates Redis' answer while a slot moves, so that the request is sent again.
var errElsewhere error = incarnationError("TRYAGAIN the key has moved, or moves, to another server")

type incarnationError string

func (e incarnationError) Error() string { return string(e) }

// RedisError marks the error as an answer of Redis.
func (incarnationError) RedisError() {}

const maxIncarnations = 64

// Script is a script on rooms, with one text per incarnation. It is safe for concurrent use.
type Script struct {
	body      string
	libraries []string

	mu    sync.Mutex
	texts map[string]*redis.Script // guarded by mu: by incarnation
}

var scripts []*Script

// NewScript returns a Script of body and the libraries it uses. Each text has its incarnation in place of
// <incarnation>.
func NewScript(body string, libraries ...string) *Script {
	s := &Script{body: body, libraries: libraries, texts: make(map[string]*redis.Script)}
	scripts = append(scripts, s)
	return s
}

func (s *Script) on(incarnation string) *redis.Script {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.texts[incarnation]
	if text == nil {
		if len(s.texts) == maxIncarnations {
			clear(s.texts)
		}
		texts := append([]string{"-- for <incarnation>\n" + s.body}, s.libraries...)
		for i, text := range texts {
			texts[i] = strings.ReplaceAll(text, "<incarnation>", incarnation)
		}
		text = lockmgr.NewScript(texts[0], texts[1:]...)
		s.texts[incarnation] = text
	}
	return text
}

// Is reports whether hash belongs to a text of this script, and to which incarnation.
func (s *Script) Is(hash string) (incarnation string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for incarnation, text := range s.texts {
		if text.Hash() == hash {
			return incarnation, true
		}
	}
	return "", false
}

// isFor reports whether a script may be loaded in an incarnation: it is for that incarnation, or is not a Script.
func isFor(script *redis.Script, incarnation string) bool {
	return !slices.ContainsFunc(scripts, func(s *Script) bool {
		of, ok := s.Is(script.Hash())
		return ok && of != incarnation
	})
}

// Servers caches the incarnation of each master. It is safe for concurrent use.
type Servers struct {
	client redis.UniversalClient
	asking singleflight.Group

	mu    sync.Mutex
	known map[string]answer // guarded by mu: by the master's address, empty without a Cluster
}

type answer struct {
	incarnation string
	at          time.Time
}

// freshAnswer is how long an answer stays valid although rooms contradict it: after a restart all rooms do.
const freshAnswer = time.Second

func newServers(client redis.UniversalClient) *Servers {
	return &Servers{client: client, known: make(map[string]answer)}
}

// Incarnation returns the cached incarnation of the master that has key, and asks if there is none. fresh says that a
// cached one may be at most freshAnswer old.
func (i *Servers) Incarnation(ctx context.Context, key string, fresh bool) (string, error) {
	at := redisconn.MasterOf(ctx, i.client, key)
	i.mu.Lock()
	last, known := i.known[at]
	i.mu.Unlock()
	if known && (!fresh || time.Since(last.at) < freshAnswer) {
		return last.incarnation, nil
	}
	return i.share(ctx, key, "", i.askOn)
}

// askTimeout limits one question; several callers may share it.
const askTimeout = 3 * time.Second

// share calls ask with a connection to the master that has key. what names the question: concurrent callers with the
// same one share a call.
func (i *Servers) share(ctx context.Context, key, what string,
	ask func(context.Context, *masterConn) (string, error)) (string, error) {
	asked := i.asking.DoChan(redisconn.MasterOf(ctx, i.client, key)+" "+what, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		conn, err := connFor(ctx, i.client, key)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		return ask(ctx, conn)
	})
	select {
	case answer := <-asked:
		now, _ := answer.Val.(string)
		return now, answer.Err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (i *Servers) askOn(ctx context.Context, conn *masterConn) (string, error) {
	server, err := conn.Info(ctx, "server").Result()
	if err != nil && strings.Contains(err.Error(), "not supported") {
		server, err = "", nil // an embedded Redis: its incarnation lasts as long as its process
	}
	var replication string
	if server != "" {
		replication, err = conn.Info(ctx, "replication").Result()
	}
	if err != nil {
		redisconn.SeekMaster(ctx, i.client, err)
		return "", fmt.Errorf("ask for the incarnation of Redis: %w", err)
	}
	now := incarnationOf(server, replication)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.known[conn.at] = answer{now, time.Now()}
	return now, nil
}

// incarnationOf builds a name from INFO: the server's run, and since when it has been its own master. It is empty if
// the server does not tell.
func incarnationOf(server, replication string) string {
	run, since := redisconn.ParseInfo(server)["run_id"], redisconn.ParseInfo(replication)["master_replid"]
	if run == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(run + " " + since))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// ConnectionLost drops the cached incarnations: connections were lost, so servers may have been restarted.
func (i *Servers) ConnectionLost() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.known)
}

// Load loads a missing script into the master that has key. It serves as lockmgr.Options.Load.
func (i *Servers) Load(ctx context.Context, key string, script *redis.Script) error {
	_, err := i.share(ctx, key, script.Hash(), func(ctx context.Context, conn *masterConn) (string, error) {
		return "", i.loadOn(ctx, conn, script)
	})
	return err
}

// loadOn asks for the incarnation and loads a script, both over conn. It fails with errIncarnation if the script is for
// another incarnation, and with errElsewhere if a Cluster's server has the script already.
func (i *Servers) loadOn(ctx context.Context, conn *masterConn, script *redis.Script) error {
	now, err := i.askOn(ctx, conn)
	if err != nil {
		return err
	}
	if !isFor(script, now) {
		return errIncarnation
	}
	if _, cluster := i.client.(*redis.ClusterClient); cluster {
		if known, err := script.Exists(ctx, conn).Result(); err == nil && len(known) == 1 && known[0] {
			i.client.(*redis.ClusterClient).ReloadState(ctx)
			return errElsewhere // the script is known here: another server answered, which has or will have the key
		}
	}
	return script.Load(ctx, loader{conn.Conn}).Err()
}

// loader loads scripts over one connection, and keeps the client from sending them again over another.
type loader struct{ *redis.Conn }

func (l loader) ScriptLoad(ctx context.Context, text string) *redis.StringCmd {
	cmd := redis.NewStringCmd(ctx, "script", "load", text)
	_ = l.Process(ctx, redisconn.Once{Cmder: cmd}) // cmd has its error
	return cmd
}

// Preload loads scripts for the server's current incarnation, for tests.
func (i *Servers) Preload(ctx context.Context, scripts ...*Script) error {
	now, err := i.Incarnation(ctx, "", false)
	for _, script := range scripts {
		err = errors.Join(err, script.on(now).Load(ctx, i.client).Err())
	}
	return err
}

// Mistake sets a wrong incarnation, for tests.
func (i *Servers) Mistake(incarnation string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.known[""] = answer{incarnation: incarnation}
}

// Replies to a commit without a hold that commit.lua shortens to a number.
var (
	doneAlone = []any{"done", int64(0)}
	conflict  = []any{"conflict"}
)

func answerOf(cmd *redis.Cmd) ([]any, error) {
	switch cmd.Val() {
	case int64(0):
		return doneAlone, nil
	case int64(1):
		return conflict, nil
	}
	return cmd.Slice()
}

// run calls send with the script's text for the server that has the key meta, and returns the reply. If Redis was
// restarted or replaced it has not run the script; then run sends the text for the new incarnation.
func (s *Store) run(ctx context.Context, meta string, script *Script,
	send func(*redis.Script) (*redis.Cmd, error)) ([]any, error) {
	for {
		now, err := s.Servers.Incarnation(ctx, meta, false)
		if err != nil {
			return nil, err
		}
		var reply []any
		cmd, err := send(script.on(now))
		if err == nil {
			reply, err = answerOf(cmd)
		}
		if !errors.Is(err, errIncarnation) || ctx.Err() != nil {
			return reply, err
		}
	}
}
