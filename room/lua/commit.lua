-- Writes what a hold did to a room, if the lock is still the writer's, and gives
-- the lock back. (lockmgr's functions stand in front of this script.)
--
-- KEYS[1] LockRoom:<id>   KEYS[2] Room:<id>:Users   KEYS[3] Room:<id>:Meta
-- ARGV[1] token           ARGV[2] node              ARGV[3] epoch
-- ARGV[4] the version that the changes build on
-- ARGV[5] ms after which the keys of an empty room expire
-- ARGV[6] channel         ARGV[7] event
-- ARGV[8] how many members are set; then user, member for each of them,
--         then the users that are removed
--
-- returns {'done'}             written, now or when this same commit came first
--         {'lost'}             nothing written: the lock is not the writer's
--         {'stale'}            nothing written: the room is at another version
--         {'refused', reason}  nothing written: Redis takes no writes
--
-- A script does not roll back: everything is checked first, the first write is
-- the one that Redis may refuse, and the event goes out last.
local lock, users, meta = KEYS[1], KEYS[2], KEYS[3]
local token, node = ARGV[1], ARGV[2]

-- A client sends a commit again when the reply was lost. By then the lock has
-- been given back, so this question comes before that of the lock.
if redis.call('HGET', meta, 'by:' .. node) == token then
  return {'done'}
end
if not lock_holds(lock, token) then
  return {'lost'}
end
local at = redis.call('HMGET', meta, 'epoch', 'version')
if (at[2] or '0') ~= ARGV[4] or (at[1] and at[1] ~= ARGV[3]) then
  return {'stale'}
end

local version = ARGV[4] + 1
local refused = redis.pcall('HSET', meta, 'epoch', ARGV[3], 'version', string.format('%d', version), 'by:' .. node, token)
if type(refused) == 'table' and refused.err then
  return {'refused', refused.err}
end
local sets = tonumber(ARGV[8])
for i = 9, 8 + 2 * sets, 2 do
  redis.call('HSET', users, ARGV[i], ARGV[i + 1])
end
for i = 9 + 2 * sets, #ARGV do
  redis.call('HDEL', users, ARGV[i])
end
if redis.call('EXISTS', users) == 0 then
  redis.call('PEXPIRE', meta, ARGV[5])
else
  redis.call('PERSIST', meta)
end
redis.call('PUBLISH', ARGV[6], ARGV[7])
lock_give(lock, token)
return {'done'}
