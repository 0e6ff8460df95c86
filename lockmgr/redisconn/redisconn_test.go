package redisconn

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestSharedTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancel(t.Context())
		s := NewSharedTimeout(life, 8*time.Second)
		first := s.Context()
		time.Sleep(time.Second)
		if s.Context() != first {
			t.Error("not shared")
		}
		time.Sleep(time.Nanosecond)
		second := s.Context()
		if second == first {
			t.Error("shared for too long")
		}
		time.Sleep(7*time.Second - 2*time.Nanosecond)
		if first.Err() != nil {
			t.Error("ended early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !errors.Is(context.Cause(first), context.DeadlineExceeded) || second.Err() != nil {
			t.Errorf("%v, %v", context.Cause(first), second.Err())
		}
		end()
		if second.Err() == nil {
			t.Error("goes on after life")
		}
	})
}
