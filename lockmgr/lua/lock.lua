-- The rules of the lock, as functions for every script that touches one. They
-- stand in front of each script of this package, and of any other script that
-- guards a store with a lock (lockmgr.Lua).
--
-- key    the lock's key        token  the caller's token, unlike any other
-- ttl    in milliseconds

-- Is the lock held under this token? The whole token is compared.
local function lock_holds(key, token)
  return redis.call('GET', key) == token
end

-- Takes a free lock. A caller that holds it already (its first request's reply
-- was lost, and the client sent it again) has succeeded, and its TTL starts
-- anew, since its deadline is measured from the request that was answered.
local function lock_take(key, token, ttl)
  if redis.call('SET', key, token, 'NX', 'PX', ttl) then
    return true
  end
  if lock_holds(key, token) then
    redis.call('PEXPIRE', key, ttl)
    return true
  end
  return false
end

-- Starts the TTL anew, for its holder only.
local function lock_extend(key, token, ttl)
  return lock_holds(key, token) and redis.call('PEXPIRE', key, ttl) == 1
end

-- Gives the lock back, for its holder only.
local function lock_give(key, token)
  return lock_holds(key, token) and redis.call('DEL', key) == 1
end
