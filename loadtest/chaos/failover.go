package chaos

import (
	"context"
	"errors"
	"io"
)

func startSentinel(context.Context, Config, func(string) io.Writer) (store, error) {
	return nil, errors.ErrUnsupported
}

func startCluster(context.Context, Config, func(string) io.Writer) (store, error) {
	return nil, errors.ErrUnsupported
}
