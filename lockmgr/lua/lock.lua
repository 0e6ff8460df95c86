-- The rules of the lock, as functions. A script that is made by lockmgr.NewScript begins
-- with those that it uses; no rule stands anywhere else.
--
-- A lock is three keys, which share a hash tag on Redis Cluster, and a channel:
--   key         string, PX    the holder's token; or, after a release, that of the
--                             waiter whose turn it is, for a short claim
--   key:Queue   sorted set    tokens that wait, by order of arrival
--   key:Fence   string, PX    the last number that was drawn; see lock_number
--   key:Wake:<process>   pub/sub   "<fence> <claim in ms> <token>": it is the turn of
--                             a token of that process. A token ends in a UUID, whose
--                             first 8 digits name the process
--
-- token  the caller's, unlike any other     ttl  of a hold, in ms
-- keep   how long a queue stays that nobody asks about, in ms
--
-- At maxmemory Redis refuses commands that may need memory, unless the script has
-- written already. A lock is given back there, too, and taken by whom it was given to:
-- each rule for that begins to write with a command that Redis never refuses.

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
local function lock_now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- A number larger than any that was drawn for this lock before, the same all through a
-- script: the fence of the hold that begins, or the place in the queue of who comes
-- last. It is the server's time in microseconds, 16 digits, as a string: so it grows
-- also where Redis has lost the last one, or knows only an older one. Where the clock
-- has stepped back, it is one more than the last one; that is kept for ten minutes, so a
-- step back by more than that can only do harm when it is lost as well.
local function lock_number(lock)
  if not lock.number then
    local t = redis.call('TIME')
    local number = t[1] .. string.sub('00000' .. t[2], -6)
    local last = redis.call('SET', lock.fence, number, 'PX', '600000', 'GET')
    if last and last >= number then
      number = string.format('%.0f', last + 1)
      redis.call('SET', lock.fence, number, 'PX', '600000')
    end
    lock.number = number
  end
  return lock.number
end

-- Gives a lock to who has waited longest, for a claim: a waiter that has died
-- meanwhile costs no more than that. It is told its fence and the claim, and so can go
-- to work without asking. One that cannot be told finds out when it asks. Returns
-- whether anybody waits.
local function lock_offer(lock)
  local head = redis.call('ZPOPMIN', lock.queue)[1]
  if not head then
    return false
  end
  redis.call('SET', lock.key, head, 'PX', lock.claim)
  redis.pcall(lock.publish, lock.key .. ':Wake:' .. string.sub(head, -36, -29), lock_number(lock) .. ' ' .. lock.claim .. ' ' .. head)
  return true
end

-- Is the lock free for this token to take, or its own already? Changes nothing.
local function lock_open(lock, token)
  local holder = redis.call('GET', lock.key)
  return holder == token or not holder and redis.call('EXISTS', lock.queue) == 0
end

-- Takes a lock that is free, if nobody has waited longer. A caller that has it already
-- (it is its turn, or its first request's reply was lost and the client sent it again)
-- has succeeded, and its TTL starts anew, since its deadline is measured from the
-- request that was answered.
local function lock_take(lock, token, ttl)
  local taken = redis.call('EXISTS', lock.queue) == 0 and redis.pcall('SET', lock.key, token, 'NX', 'PX', ttl)
  if taken and taken.ok then
    return true
  end
  local holder = redis.call('GET', lock.key)
  if holder then
    return holder == token and redis.call('PEXPIRE', lock.key, ttl) == 1
  end
  local head = redis.call('ZRANGE', lock.queue, 0, 0)[1]
  if head and head ~= token then
    lock_offer(lock)
    return false
  end
  if head then
    redis.call('ZREM', lock.queue, token)
  end
  redis.call('SET', lock.key, token, 'PX', ttl) -- which raises why it was refused
  return true
end

-- Lets a token wait behind all others, once, and returns the number of its place. A
-- wake-up with a smaller fence was for a place that it has lost.
local function lock_queue(lock, token, keep)
  local place = redis.call('ZSCORE', lock.queue, token)
  if not place then
    place = lock_number(lock)
    redis.call('ZADD', lock.queue, place, token)
    redis.call('PEXPIRE', lock.queue, keep)
  elseif redis.call('PTTL', lock.queue) < keep / 2 then
    redis.call('PEXPIRE', lock.queue, keep)
  end
  return place
end

-- Starts the TTL anew, for its holder only.
local function lock_extend(lock, token, ttl)
  return lock_holds(lock, token) and redis.call('PEXPIRE', lock.key, ttl) == 1
end

-- Gives the lock to who has waited longest, or to nobody, and returns whether anybody
-- waited. For a script that knows that the caller is the holder.
local function lock_free(lock)
  local waited = lock_offer(lock)
  if not waited then
    redis.call('DEL', lock.key)
  end
  return waited
end

-- Gives the lock back, for its holder only. Returns whether the token held it.
local function lock_give(lock, token)
  if not lock_holds(lock, token) then
    return false
  end
  lock_free(lock)
  return true
end

-- Gives the lock to one waiter that is known to be alive, if nobody has waited longer:
-- it holds for a whole ttl at once. Otherwise it waits, as by lock_queue, and the number
-- of its place is returned besides. For a script that knows that the caller is the holder.
local function lock_pass(lock, heir, ttl, keep)
  local head = redis.call('ZRANGE', lock.queue, 0, 0)[1]
  if head and head ~= heir then
    lock_offer(lock)
    return false, lock_queue(lock, heir, keep)
  end
  if head then
    redis.call('ZREM', lock.queue, heir)
  end
  if redis.pcall('SET', lock.key, heir, 'PX', ttl).err then
    redis.call('DEL', lock.key)
    redis.call('SET', lock.key, heir, 'PX', ttl)
  end
  return true
end

-- Waits no more, and gives back what may have been given meanwhile.
local function lock_leave(lock, token)
  redis.call('ZREM', lock.queue, token)
  return lock_give(lock, token)
end
