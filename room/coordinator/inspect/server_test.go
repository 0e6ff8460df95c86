package inspect

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"roomd/lockmgr/redisconn"
	"roomd/lockmgr/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A server tells its settings, also as a user who may not read the configuration.
func TestServers(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru", "--appendonly", "yes", "--min-replicas-to-write", "3", "--save", "60 1")
	all, err := Servers(t.Context(), server.Client(), true)
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	s := all[0]
	if s.Address != server.Addr() || s.TooOld || s.NoRunID || s.Product == "" || s.Mode != "standalone" || s.IsReplica || s.Loading || s.MaxMemory != 100<<20 || s.UsedMemory == 0 || !s.Evicts() || !s.AppendOnly || s.WriteFailed != "" {
		t.Errorf("%+v", s)
	}
	if s.Config == nil || *s.Config != (Config{AppendSync: "everysec", Save: "60 1", MinReplicas: 3, FullCoverage: true}) {
		t.Errorf("config %+v", s.Config)
	}
	if s.RoundTrip <= 0 || s.SlowestTrip < s.RoundTrip || s.ClockAhead.Abs() > s.ClockError+time.Second {
		t.Errorf("measured %+v", s)
	}
	admin := server.Client()
	redistest.OK(t, admin.Do(t.Context(), "ACL", "SETUSER", "rented", "on", ">secret", "+info", "+time", "+@connection").Err())
	opts := *admin.Options()
	opts.Username, opts.Password = "rented", "secret"
	client := redis.NewClient(&opts)
	defer client.Close()
	all, err = Servers(t.Context(), client, true)
	if err != nil || len(all) != 1 || all[0].Config != nil || !all[0].AppendOnly {
		t.Errorf("without CONFIG: %+v, %v", all, err)
	}
	if cluster, err := ClusterOf(t.Context(), client); cluster != nil || err != nil {
		t.Errorf("it is no Cluster: %+v, %v", cluster, err)
	}
}

// A replica says that it is one, and its master that it has one.
func TestReplicas(t *testing.T) {
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := strings.Cut(master.Addr(), ":")
	replica := redistest.Start(t, "--replicaof", host+" "+port)
	redistest.Until(t, "the master knows its replica", func() bool {
		all, err := Servers(t.Context(), master.Client(), false)
		redistest.OK(t, err)
		return all[0].Replicas == 1 && !all[0].IsReplica
	})
	all, err := Servers(t.Context(), replica.Client(), false)
	if err != nil || !all[0].IsReplica || !all[0].ReadOnly || all[0].Config != nil || all[0].RoundTrip != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	replica.Kill()
	if _, err := Servers(t.Context(), replica.Client(), false); err == nil {
		t.Error("a server that has ended answers")
	}
}

// A replica that is not in step yet acknowledges nothing.
func TestReplicas_InStep(t *testing.T) {
	var s Server
	s.read(redisconn.ParseInfo("role:master\r\nconnected_slaves:2\r\nslave0:ip=h,port=1,state=wait_bgsave,offset=0\r\nslave1:ip=h,port=2,state=online,offset=1\r\nslave2:ip=h,port=3,state=online,offset=1\r\n"))
	if s.Replicas != 2 {
		t.Errorf("%d replicas in step", s.Replicas)
	}
}
