-- Deletes the lock if its time is not after that of the caller.
-- KEYS[1] lock   ARGV[1] now + expiry in ms, by the caller's clock
-- returns how many keys were deleted; 0 also if the value is no number
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
local stored = tonumber(redis.call('GET', KEYS[1]))
if stored and stored <= tonumber(ARGV[1]) then
  return redis.call('DEL', KEYS[1])
end
return 0
