-- Writes what a hold did to a room, if the lock is still the writer's, and gives
-- the lock back. (lockmgr's functions stand in front of this script.)
--
-- KEYS[1..3] the lock     KEYS[4] Room:<id>:Users   KEYS[5] Room:<id>:Meta
-- ARGV[1], ARGV[2] of the lock (publish, claim)
-- ARGV[3] token            ARGV[4] fence             ARGV[5] node
-- ARGV[6] epoch            ARGV[7] the version that the changes build on
-- ARGV[8] ms after which the keys of an empty room expire
-- ARGV[9] channel          ARGV[10] event
-- ARGV[11] how many members are set; then user, member for each of them,
--          then the users that are removed
--
-- returns {'done'}             written, now or when this same commit came first
--         {'lost'}             nothing written: the lock is not the writer's
--         {'stale'}            nothing written: the room is at another version
--         {'refused', reason}  nothing written: Redis takes no writes
--
-- A script does not roll back: everything is checked first, the first write is
-- the one that Redis may refuse, and the event goes out last.
local lock, users, meta = lock_at(1, ARGV[1], ARGV[2]), KEYS[4], KEYS[5]
local token, by = ARGV[3], 'by:' .. ARGV[5]

-- A client sends a commit again when the reply was lost. By then the lock has
-- been given back, so this question comes before that of the lock.
if redis.call('HGET', meta, by) == token then
  return {'done'}
end
if not lock_holds(lock, token) then
  return {'lost'}
end
local at = redis.call('HMGET', meta, 'epoch', 'version')
if (at[2] or '0') ~= ARGV[7] or (at[1] and at[1] ~= ARGV[6]) then
  return {'stale'}
end

local refused = redis.pcall('HSET', meta, 'epoch', ARGV[6], 'version', string.format('%d', ARGV[7] + 1),
  'fence', ARGV[4], by, token)
if type(refused) == 'table' and refused.err then
  return {'refused', refused.err}
end
local sets = tonumber(ARGV[11])
for i = 12, 11 + 2 * sets, 2 do
  redis.call('HSET', users, ARGV[i], ARGV[i + 1])
end
for i = 12 + 2 * sets, #ARGV do
  redis.call('HDEL', users, ARGV[i])
end
if redis.call('EXISTS', users) == 0 then
  redis.call('PEXPIRE', meta, ARGV[8])
else
  redis.call('PERSIST', meta)
end
redis.call(ARGV[1], ARGV[9], ARGV[10])
lock_give(lock, token)
return {'done'}
