-- KEYS[1] lock   ARGV[1] publish   ARGV[2] claim   ARGV[3] token   ARGV[4] TTL in ms
-- returns 1 extended, 0 not held by the token
return lock_extend(1, ARGV[3], ARGV[4]) and 1 or 0
