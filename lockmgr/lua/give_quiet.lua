-- Gives the lock back to nobody. It is release.lua with the least that Redis has to
-- read, for a lock that probably nobody waits for.
-- KEYS[1..2] lock, queue   ARGV[1] token
-- returns 1 given back; 0 it was not: somebody waits, or the token does not hold it
if redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('EXISTS', KEYS[2]) == 0 then
  return redis.call('DEL', KEYS[1])
end
return 0
