-- Reads an entry.
-- KEYS[1..3] lock   KEYS[4] entry   KEYS[5] failure
-- returns {value or false, ms it has left, time of the last failure or false,
--          what that failure was or false, the time now}
-- Times are the server's, in microseconds.
local failure = redis.call('HMGET', KEYS[5], 'at', 'message')
return {
  redis.call('HGET', KEYS[4], 'value'), redis.call('PTTL', KEYS[4]),
  failure[1], failure[2], string.format('%.0f', lock_now()),
}
