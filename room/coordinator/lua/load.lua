-- Reads a room in one step.
-- KEYS[1] Room:<id>:Users   KEYS[2] Room:<id>:Meta
-- returns {epoch or false, version or false, mark or false, members or false, {user, member as JSON, ...}}
local at = redis.call('HMGET', KEYS[2], 'epoch', 'version', 'mark', 'members')
return {at[1], at[2], at[3], at[4], redis.call('HGETALL', KEYS[1])}
