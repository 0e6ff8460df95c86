-- Writes what was done to two rooms, if both locks are still the writer's: users leave the
-- one and come into the other in one step. The locks stay.
--
-- KEYS[1..3], KEYS[4..6] the locks of the first room and of the second
-- KEYS[7], KEYS[8], KEYS[9]     Users, Meta and Log of the first room
-- KEYS[10], KEYS[11], KEYS[12]  of the second
-- ARGV[1], ARGV[2] of the lock (publish, claim)
-- ARGV[3] how many arguments are of the first room; from ARGV[4] these, then those of the
--         second, as room.lua has them
--
-- returns {'done', error, error, error, error} written, now or when this same request came
--                              first; and why Redis did not take the event and the entry in the
--                              journal of each room, or false
--         {'lost'}             nothing written: a lock is not the writer's
--         {'stale'}            nothing written: one of the rooms is another one by now
--         {'refused', reason}  nothing written: Redis takes no writes
local second = 4 + ARGV[3]
if not lock_holds(1, ARGV[4]) or not lock_holds(4, ARGV[second]) then
  -- The request may have come before: then the first room has its token.
  if redis.call('HGET', KEYS[8], ARGV[6]) == ARGV[4] then
    return {'done', false, false, false, false}
  end
  return {'lost'}
end
local there, beyond = room_count(KEYS[7], KEYS[8], 4), room_count(KEYS[10], KEYS[11], second)
if not there or not beyond then
  -- The same, while the locks are still the writer's.
  if redis.call('HGET', KEYS[8], ARGV[6]) == ARGV[4] then
    return {'done', false, false, false, false}
  end
  return {'stale'}
end
-- The second room first: who comes in needs memory, which Redis may refuse to the first
-- write only.
local refused, unheard, unlogged, untold, unkept
if ARGV[second + 4] ~= '' then
  local _, _, epoch, idle, fields, journal = room_rare(second)
  refused, unheard, unlogged = room_write(KEYS[10], KEYS[11], KEYS[12], second, #ARGV, beyond, epoch, idle, fields, journal)
  if refused then
    return {'refused', refused}
  end
end
local _, _, epoch, idle, fields, journal = room_rare(4)
refused, untold, unkept = room_write(KEYS[7], KEYS[8], KEYS[9], 4, second - 1, there, epoch, idle, fields, journal)
if refused then -- only where nothing was written to the second room
  return {'refused', refused}
end
return {'done', untold or false, unkept or false, unheard or false, unlogged or false}
