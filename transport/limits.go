package transport

import "time"

// limits are the options that SetLimits changes, as they are used.
type limits struct {
	maxFrame, maxQueue, maxRooms int
	rate, maxNewRooms            int       // what a refusal names
	requests                     rateLimit // of a connection, and of a user
	newRooms                     rateLimit // that a user begins
	authTimeout                  time.Duration
}

func (o Options) limits() *limits {
	return &limits{
		maxFrame: o.MaxFrame, maxQueue: o.MaxQueue, maxRooms: o.MaxRooms, rate: o.Rate, maxNewRooms: o.MaxNewRooms,
		requests: o.requestLimit(), newRooms: o.newRoomsLimit(), authTimeout: o.AuthTimeout,
	}
}

// SetLimits puts other limits in force: MaxConnections, MaxPerAddress, MaxRooms, MaxNewRooms, Rate, Burst,
// MaxFrame, MaxQueue and AuthTimeout of opts; nothing else there is used. Rates and numbers of rooms count from
// the next request on, the last three for connections that are made from now on. Nobody is sent away: where more are connected,
// or in more rooms, than may be, there is no further one. It returns an error that names the field, and
// changes nothing, if an option cannot be used.
func (s *Server) SetLimits(opts Options) error {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return err
	}
	s.limits.Store(opts.limits())
	s.conns.setLimits(opts.MaxConnections, opts.MaxPerAddress)
	return nil
}
