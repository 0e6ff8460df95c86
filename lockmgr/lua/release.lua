-- KEYS[1] lock   ARGV[1] token
-- returns 1 given back, 0 nobody holds it, -1 held by another
if lock_give(KEYS[1], ARGV[1]) then
  return 1
end
return redis.call('EXISTS', KEYS[1]) == 1 and -1 or 0
