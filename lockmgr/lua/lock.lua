-- The rules of the lock, as functions for every script that touches one. They
-- stand in front of each script of this package, and of any other script that
-- guards a store with a lock (lockmgr.Lua).
--
-- A lock is three keys, which share a hash tag on Redis Cluster, and a channel:
--   key         string, PX    the holder's token; or, after a release, that of the
--                             waiter whose turn it is, for a short claim
--   key:Queue   sorted set    tokens that wait, by order of arrival
--   key:Fence   string, PX    the last number that was drawn; see lock_number
--   key:Wake:<process>   pub/sub   "<fence> <time in us> <token>": it is the turn of
--                             a token of that process. A token ends in a UUID, whose
--                             first 8 digits name the process
--
-- token  the caller's, unlike any other     ttl  of a hold, in ms

-- Names the lock whose keys begin at KEYS[at]. publish is the command that reaches
-- the channel (PUBLISH, or SPUBLISH on Cluster), claim is in ms.
local function lock_at(at, publish, claim)
  return {key = KEYS[at], queue = KEYS[at + 1], fence = KEYS[at + 2], publish = publish, claim = claim}
end

-- Is the lock held under this token? The whole token is compared.
local function lock_holds(lock, token)
  return redis.call('GET', lock.key) == token
end

-- The server's time in microseconds. It stands still while a script runs.
local lock_time
local function lock_now()
  if not lock_time then
    local t = redis.call('TIME')
    lock_time = t[1] * 1000000 + t[2]
  end
  return lock_time
end

-- A number larger than any that was drawn for this lock before, once a script: the
-- fence of the hold that begins, or the place in the queue of who comes last. So no
-- step of a clock changes who is first. It is one more than the last one, or the
-- server's time where that is not known. It is kept for ten minutes, so that a clock
-- that steps back does no harm; and since no lock is taken once a microsecond, time
-- is ahead of all that were drawn when the key has gone.
local function lock_number(lock)
  if not lock.number then
    lock.number = redis.call('INCR', lock.fence)
    if lock.number < 1000000 then -- there was none
      lock.number = lock_now()
      redis.call('SET', lock.fence, string.format('%.0f', lock.number), 'PX', 600000)
    end
  end
  return lock.number
end

-- Gives a lock that nobody holds to who has waited longest, for a claim: a waiter
-- that has died meanwhile costs no more than that. It learns its fence and when the
-- claim began, and so can go to work without asking. Returns whether anybody waits.
local function lock_offer(lock)
  local head = redis.call('ZPOPMIN', lock.queue)[1]
  if not head then
    return false
  end
  redis.call('SET', lock.key, head, 'PX', lock.claim)
  redis.call(lock.publish, lock.key .. ':Wake:' .. string.sub(head, -36, -29), string.format('%.0f %.0f %s', lock_number(lock), lock_now(), head))
  return true
end

-- Takes a lock that is free, if nobody has waited longer, and returns the hold's
-- fence, or false. A caller that has it already (it is its turn, or its first
-- request's reply was lost and the client sent it again) has succeeded, and its
-- TTL starts anew, since its deadline is measured from the request that was
-- answered.
local function lock_take(lock, token, ttl)
  local holder = redis.call('GET', lock.key)
  if holder == token then
    redis.call('PEXPIRE', lock.key, ttl)
    return lock_number(lock)
  end
  if holder then
    return false
  end
  local head = redis.call('ZRANGE', lock.queue, 0, 0)[1]
  if head and head ~= token then
    lock_offer(lock)
    return false
  end
  redis.call('SET', lock.key, token, 'PX', ttl)
  if head then
    redis.call('ZREM', lock.queue, token)
  end
  return lock_number(lock)
end

-- Lets a token that does not wait yet do so, behind all others. The queue goes away
-- when nobody has asked for it for keep ms.
local function lock_line_up(lock, token, keep)
  redis.call('ZADD', lock.queue, string.format('%.0f', lock_number(lock)), token)
  redis.call('PEXPIRE', lock.queue, keep)
end

-- Lets a token wait, once.
local function lock_queue(lock, token, keep)
  if not redis.call('ZSCORE', lock.queue, token) then
    lock_line_up(lock, token, keep)
  elseif redis.call('PTTL', lock.queue) < keep / 2 then
    redis.call('PEXPIRE', lock.queue, keep)
  end
end

-- Starts the TTL anew, for its holder only.
local function lock_extend(lock, token, ttl)
  return lock_holds(lock, token) and redis.call('PEXPIRE', lock.key, ttl) == 1
end

-- Gives the lock back, for its holder only: to who has waited longest, or to
-- nobody.
local function lock_give(lock, token)
  if not lock_holds(lock, token) then
    return false
  end
  if not lock_offer(lock) then
    redis.call('DEL', lock.key)
  end
  return true
end

-- Gives the lock back to one waiter that is known to be alive, if nobody has
-- waited longer: it holds for a whole ttl at once, and its fence is returned.
-- Otherwise that waiter waits, as by lock_queue. For the holder only.
local function lock_pass(lock, heir, ttl, keep)
  local head = redis.call('ZRANGE', lock.queue, 0, 0)[1]
  if head and head ~= heir then
    lock_offer(lock)
    lock_queue(lock, heir, keep)
    return false
  end
  redis.call('SET', lock.key, heir, 'PX', ttl)
  if head then
    redis.call('ZREM', lock.queue, heir)
  end
  return lock_number(lock)
end

-- Waits no more, and gives back what may have been given meanwhile.
local function lock_leave(lock, token)
  redis.call('ZREM', lock.queue, token)
  return lock_give(lock, token)
end
