-- Releases the lock, if possible to the next waiter of the same process; see lock_pass.
-- KEYS[1..3] lock   ARGV[1] publish   ARGV[2] claim   ARGV[3] token
-- ARGV[4] token of that waiter   ARGV[5] TTL in ms
return lock_pass(1, ARGV[3], ARGV[4], ARGV[5])
