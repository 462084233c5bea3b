//! Plans that several load generators run together.

mod membership;
mod shared;

pub(crate) use membership::{
    Group, Membership, check_run_name, check_shown_coordinator, resolve_group, resolve_membership,
};
pub(crate) use shared::SharedPlan;
