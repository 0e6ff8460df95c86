-- Acquires the lock, or tells who has it.
-- KEYS[1..3] lock   ARGV[1] publish   ARGV[2] claim   ARGV[3] token   ARGV[4] TTL in ms
-- returns fence     acquired
--         {holder}  that token has it, or is to have it next
--         {}        nobody has it, and the token is buried
return lock_acquire_fenced(1, ARGV[3], ARGV[4]) or {redis.call('GET', KEYS[1]) or nil}
