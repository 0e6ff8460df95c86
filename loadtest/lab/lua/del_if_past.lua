-- Deletes the lock if its time is past.
-- KEYS[1] lock   ARGV[1] now in ms, by the caller's clock
-- returns how many keys were deleted
local stored = redis.call('GET', KEYS[1])
if stored and tonumber(stored) < tonumber(ARGV[1]) then
  return redis.call('DEL', KEYS[1])
end
return 0
