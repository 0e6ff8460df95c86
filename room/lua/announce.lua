-- Says until when a node is to be believed, by the server's clock.
-- KEYS[1] Nodes   ARGV[1] node   ARGV[2] ms from now; 0 if it ends now
local t = redis.call('TIME')
return redis.call('ZADD', KEYS[1], t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[2], ARGV[1])
