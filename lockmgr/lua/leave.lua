-- Waits no more.
-- KEYS[1..3] lock   ARGV[1] publish   ARGV[2] claim   ARGV[3] token
-- returns 1 it had been given the lock, which is given back; 0 it had not
return lock_leave(1, ARGV[3]) and 1 or 0
