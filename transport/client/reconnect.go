package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/gorilla/websocket"
)

// run makes one connection after the other until the client ends.
func (c *Client) run() {
	k := newConnector(c)
	err := c.connections(k)
	if c.ctx.Err() != nil {
		err = &CloseError{Code: websocket.CloseNormalClosure, Text: "by the program"}
	}
	c.stop()
	if !errors.Is(err, ErrClosed) {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	c.status.lost(err)
	c.rooms.end(err)
}

// connections returns why there is no further connection.
func (c *Client) connections(k *connector) error {
	for {
		conn, token, err := k.connect(c.ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		c.status.connected(conn)
		startSession(c, conn, token).run()
		why := conn.Err()
		c.rooms.disconnected()
		if err := k.ended(why, time.Since(began)); err != nil || c.ctx.Err() != nil {
			return err
		}
		c.status.disconnected(why)
		if !k.backoff.pause(c.ctx) {
			return c.ctx.Err()
		}
	}
}
