-- KEYS[1] lock   ARGV[1] token   ARGV[2] TTL in ms
-- returns 1 extended, 0 not the holder
return lock_extend(KEYS[1], ARGV[1], ARGV[2]) and 1 or 0
