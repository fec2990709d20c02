//! Names of users, from `/etc/passwd`.

use std::collections::HashMap;

/// The known users; read once.
#[derive(Debug, Default)]
pub(crate) struct Users {
    names: HashMap<u32, String>,
}

impl Users {
    /// As the system has them.
    pub(crate) fn read() -> Self {
        Self::parse(&std::fs::read_to_string("/etc/passwd").unwrap_or_default())
    }

    /// `name:password:uid:…`, a line each.
    fn parse(text: &str) -> Self {
        let user = |line: &str| {
            let mut fields = line.split(':');
            let name = fields.next()?.to_owned();
            Some((fields.nth(1)?.parse().ok()?, name))
        };
        Self { names: text.lines().rev().filter_map(user).collect() }
    }

    /// The name of a user, or the number if it has none here.
    pub(crate) fn name(&self, uid: u32) -> String {
        self.names.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_a_name_is_a_number() {
        let users = Users::parse(
            "root:x:0:0:root:/root:/bin/sh\nbroken\nme:x:1000:1000::/home/me:/bin/sh\ntoor:x:0:0::/:/bin/sh\n",
        );
        assert_eq!([0, 1000, 7].map(|uid| users.name(uid)), ["root", "me", "7"]);
    }
}
