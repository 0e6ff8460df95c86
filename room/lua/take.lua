-- Takes a room's lock and reads the room, or waits for the lock. (In front of this
-- stands take_quiet.lua, and between them are lockmgr's functions.)
if not yours and (holder or not lock_take(1, ARGV[3], ARGV[4])) then
  lock_line(1).queue(ARGV[3], tonumber(ARGV[5]))
  return {'queued'}
end
if ARGV[6] == '1' then
  return {'yours'}
end
local at = redis.call('HMGET', KEYS[5], 'epoch', 'version', 'mark', 'members')
return {'yours', at[1], at[2], at[3], at[4], redis.call('HGETALL', KEYS[4])}
