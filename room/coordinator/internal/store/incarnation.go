package store

import (
	"bufio"
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

// An incarnation is the time in which one Redis server is master, without an end: it ends when the server is
// restarted, or another one takes its place, or it gets another's data. What is not in Redis by then is lost, and
// nothing that Redis has says so: a room from an old copy of its data looks as it did then. So an epoch ends with its
// incarnation, unless the server has kept all, which nobody can tell.
//
// That has to be known before anything is written or read. A node would learn it too late by asking, since the server
// may be restarted after the answer. But a server forgets its scripts when it is restarted, and a replica has none.
// So the text of a script on rooms names the incarnation that it is for: a server of another one does not know the
// script, says so, and does nothing. Then the node asks which incarnation it is, and takes the script for that. This
// costs nothing as long as nothing happens.
//
// Meta has the incarnation in which the room's epoch began. A room of another one begins a new
// epoch with the next commit, and is read by nobody before.

// errIncarnation says that a script was for an earlier incarnation. It was not carried out.
var errIncarnation error = incarnationError("redis was restarted or replaced")

// errElsewhere says what Redis says while a slot moves: the request is to be sent again.
var errElsewhere error = incarnationError("TRYAGAIN the key has moved, or moves, to another server")

type incarnationError string

func (e incarnationError) Error() string { return string(e) }

// RedisError makes it an answer of Redis.
func (incarnationError) RedisError() {}

// maxIncarnations is how many incarnations' texts of a script are kept.
const maxIncarnations = 64

// Script is a script on rooms, with a text for each incarnation. It is safe for concurrent use.
type Script struct {
	body      string
	libraries []string

	mu    sync.Mutex
	texts map[string]*redis.Script // guarded by mu: by incarnation
}

// scripts are all of them.
var scripts []*Script

// NewScript returns a script, with the functions of libraries that it uses. In all texts <incarnation> is that of the
// server.
func NewScript(body string, libraries ...string) *Script {
	s := &Script{body: body, libraries: libraries, texts: make(map[string]*redis.Script)}
	scripts = append(scripts, s)
	return s
}

// on returns the script for an incarnation.
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

// Is reports whether a text is this script's, and for which incarnation.
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

// isFor reports whether a script may be loaded in an incarnation: it is no room's, or is for that one.
func isFor(script *redis.Script, incarnation string) bool {
	return !slices.ContainsFunc(scripts, func(s *Script) bool {
		of, ok := s.Is(script.Hash())
		return ok && of != incarnation
	})
}

// incarnations know the incarnation of each master. They are safe for concurrent use.
type incarnations struct {
	client redis.UniversalClient
	asking singleflight.Group

	mu    sync.Mutex
	known map[string]answer // guarded by mu: by the master's address, empty without a Cluster
}

// answer is what a server has said.
type answer struct {
	incarnation string
	at          time.Time
}

// freshAnswer is for how long an answer is believed although a room is of another incarnation: when a
// server was restarted, all rooms are.
const freshAnswer = time.Second

func newIncarnations(client redis.UniversalClient) *incarnations {
	return &incarnations{client: client, known: make(map[string]answer)}
}

// of returns the incarnation of the master that has a key, as far as it is known. If fresh is true it is as
// the master says now, or a moment ago.
func (i *incarnations) of(ctx context.Context, key string, fresh bool) (string, error) {
	at := redisconn.MasterOf(ctx, i.client, key)
	i.mu.Lock()
	last, known := i.known[at]
	i.mu.Unlock()
	if known && (!fresh || time.Since(last.at) < freshAnswer) {
		return last.incarnation, nil
	}
	return i.ask(ctx, key)
}

// askTimeout bounds one question, which may have several callers.
const askTimeout = 3 * time.Second

// ask asks the master that has a key for its incarnation.
func (i *incarnations) ask(ctx context.Context, key string) (string, error) {
	return i.share(ctx, key, "", i.askOn)
}

// share has the master of a key asked, by a connection of its own. Those who ask the same meanwhile share the answer.
func (i *incarnations) share(ctx context.Context, key, what string,
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

// askOn asks the server of a connection for its incarnation.
func (i *incarnations) askOn(ctx context.Context, conn *masterConn) (string, error) {
	server, err := conn.Info(ctx, "server").Result()
	if err != nil && strings.Contains(err.Error(), "not supported") {
		server, err = "", nil // an embedded Redis, which lives as long as its process
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

// incarnationOf names an incarnation by what INFO says: which run of a server it is, and since when
// it has been its own master. Empty means that the server does not say.
func incarnationOf(server, replication string) string {
	run, since := infoField(server, "run_id"), infoField(replication, "master_replid")
	if run == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(run + " " + since))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// infoField returns a field of what INFO answers.
func infoField(info, name string) string {
	lines := bufio.NewScanner(strings.NewReader(info))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+":"); ok {
			return value
		}
	}
	return ""
}

// forget has the servers be asked again, because connections to them were lost.
func (i *incarnations) forget() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.known)
}

// load has the master of a key load a script that it does not know. It is the lock manager's Load.
func (i *incarnations) load(ctx context.Context, key string, script *redis.Script) error {
	_, err := i.share(ctx, key, script.Hash(), func(ctx context.Context, conn *masterConn) (string, error) {
		return "", i.loadOn(ctx, conn, script)
	})
	return err
}

// loadOn has the server of a connection load a script. It fails with errIncarnation if the script is for another
// incarnation than the server's. Question and answer go by one connection, and so to one incarnation.
func (i *incarnations) loadOn(ctx context.Context, conn *masterConn, script *redis.Script) error {
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
			return errElsewhere // another server said so, which has the key by now, or will have it
		}
	}
	return script.Load(ctx, loader{conn.Conn}).Err()
}

// loader loads scripts by a connection, and never by another one that the client has made in its place.
type loader struct{ *redis.Conn }

// ScriptLoad loads a script.
func (l loader) ScriptLoad(ctx context.Context, text string) *redis.StringCmd {
	cmd := redis.NewStringCmd(ctx, "script", "load", text)
	_ = l.Process(ctx, redisconn.Once{Cmder: cmd}) // cmd has its error
	return cmd
}

// Preload loads scripts for the incarnation that the server is known to be in, so that a test finds them there.
func (s *Store) Preload(ctx context.Context, scripts ...*Script) error {
	now, err := s.servers.of(ctx, "", false)
	for _, script := range scripts {
		err = errors.Join(err, script.on(now).Load(ctx, s.Client).Err())
	}
	return err
}

// Mistake makes the store believe in an incarnation that the server is not in, for tests.
func (s *Store) Mistake(incarnation string) {
	s.servers.mu.Lock()
	defer s.servers.mu.Unlock()
	s.servers.known[""] = answer{incarnation: incarnation}
}
