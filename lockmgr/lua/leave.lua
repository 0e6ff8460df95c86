-- Stops waiting.
-- KEYS[1..3] lock   ARGV[1] publish   ARGV[2] claim   ARGV[3] token
-- returns 1 if the token had been given the lock, which is given back; 0 if not
return lock_leave(1, ARGV[3]) and 1 or 0
