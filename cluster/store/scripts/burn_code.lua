-- Spend a code without a grant. One that has expired meanwhile stays away: a new field would have no expiry.
-- KEYS  1 code
-- Gives 1 if the code was used before, else 0.
if redis.call('HEXISTS', KEYS[1], 'code') == 0 then
  return 0
end
return 1 - redis.call('HSETNX', KEYS[1], 'used', '1')
