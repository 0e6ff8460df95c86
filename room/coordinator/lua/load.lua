-- Reads a room in one step.
-- KEYS[1] Room:<id>:Users   KEYS[2] Room:<id>:Meta
-- returns {epoch, version, mark, members, settings, data, bans, {user, member as JSON, ...}}; each of the
--         first seven is false if Redis has none
local at = redis.call('HMGET', KEYS[2], 'epoch', 'version', 'mark', 'members', 'settings', 'data', 'bans')
return {at[1], at[2], at[3], at[4], at[5], at[6], at[7], redis.call('HGETALL', KEYS[1])}
