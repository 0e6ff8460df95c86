-- Gives the lock back.
-- KEYS[1..3] lock   ARGV[1] publish   ARGV[2] claim   ARGV[3] token
-- returns {1} given back, {0} the token did not hold it
return {lock_give(1, ARGV[3]) and 1 or 0}
