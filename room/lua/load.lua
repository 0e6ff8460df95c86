-- Reads a room in one step.
-- KEYS[1] Room:<id>:Users   KEYS[2] Room:<id>:Meta
-- returns {epoch or nil, version or nil}, {user, member as JSON, ...}
return {redis.call('HMGET', KEYS[2], 'epoch', 'version'), redis.call('HGETALL', KEYS[1])}
