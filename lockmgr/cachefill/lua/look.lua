-- Reads an entry.
-- KEYS[1..3] lock   KEYS[4] entry   KEYS[5] failure
-- returns {value or false, its age, text of the last failure or false, its age,
--          the token of the load that failed or false}
-- Ages are in microseconds by the server's clock. An age is below zero if there is no value
-- or failure, or the clock stepped back.
local now = redis.call('TIME')
local function age(at)
  return at and now[1] * 1000000 + now[2] - at or -1
end
local entry = redis.call('HMGET', KEYS[4], 'value', 'at')
local failure = redis.call('HMGET', KEYS[5], 'message', 'at', 'by')
return {entry[1], age(entry[2]), failure[1], age(failure[2]), failure[3]}
